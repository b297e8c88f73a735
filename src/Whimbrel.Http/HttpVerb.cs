namespace Whimbrel.Http;

/// <summary>Method of a request. Case-sensitive: <c>get</c> is another method than <c>GET</c>.</summary>
public enum HttpVerb
{
    /// <summary>Any other method; its name is in the request.</summary>
    Other,

    /// <summary>GET.</summary>
    Get,

    /// <summary>HEAD: like GET, with a response without body.</summary>
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
