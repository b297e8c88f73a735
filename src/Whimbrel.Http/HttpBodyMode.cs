namespace Whimbrel.Http;

/// <summary>Handling of a request's body.</summary>
public enum HttpBodyMode
{
    /// <summary>The body is buffered; the request is delivered when it is complete:
    /// <see cref="HttpRequest.BodyBytes"/>.</summary>
    Buffer,

    /// <summary>The request is delivered at once, and the body is read from <see cref="HttpRequest.Body"/>. Without a
    /// read the peer waits.</summary>
    Stream,

    /// <summary>The request is delivered at once, and the body is skipped.</summary>
    Skip,
}
