namespace Whimbrel.Http;

/// <summary>What becomes of a request's body.</summary>
public enum HttpBodyMode
{
    /// <summary>It is kept, and the request is told of when it is whole: <see cref="HttpRequest.BodyBytes"/>.</summary>
    Buffer,

    /// <summary>The request is told of at once, and the body is read from <see cref="HttpRequest.Body"/>; who does not read lets the peer wait.</summary>
    Stream,

    /// <summary>The request is told of at once, and the body is read away.</summary>
    Skip,
}
