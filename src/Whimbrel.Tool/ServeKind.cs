namespace Whimbrel.Tool;

/// <summary>What a server does with its peers.</summary>
internal enum ServeKind
{
    Echo,
    Discard,
    Chat,
    Push,
    Groups,
    Http,
    Ws,
}
