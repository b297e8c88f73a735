namespace Whimbrel.Http;

/// <summary>What <see cref="HttpMessageReader"/> has found.</summary>
public enum HttpMessagePart
{
    /// <summary>It needs more bytes: the same again, joined with what follows.</summary>
    NeedMore,

    /// <summary>The head of an answer that says something on the way (1xx). Another one follows.</summary>
    Interim,

    /// <summary>The head of the message.</summary>
    Head,

    /// <summary>A piece of the body.</summary>
    Data,

    /// <summary>The message is whole.</summary>
    Done,

    /// <summary>The head of a 101: what follows is another protocol's.</summary>
    Switched,

    /// <summary>A rule was broken. Nothing can be read any more.</summary>
    Broken,
}
