namespace Whimbrel.Http;

/// <summary>The method of a request. Case counts: <c>get</c> is another method than <c>GET</c>.</summary>
public enum HttpVerb
{
    /// <summary>One that has no number here; its name is in the request.</summary>
    Other,

    /// <summary>GET.</summary>
    Get,

    /// <summary>HEAD: as GET, and the answer has no body.</summary>
    Head,

    /// <summary>POST.</summary>
    Post,

    /// <summary>PUT.</summary>
    Put,

    /// <summary>DELETE.</summary>
    Delete,

    /// <summary>CONNECT.</summary>
    Connect,

    /// <summary>OPTIONS.</summary>
    Options,

    /// <summary>TRACE.</summary>
    Trace,

    /// <summary>PATCH.</summary>
    Patch,
}
