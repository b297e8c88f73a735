namespace Whimbrel.Tool;

/// <summary>Kinds of servers.</summary>
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
