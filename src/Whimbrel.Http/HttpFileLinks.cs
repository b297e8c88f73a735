namespace Whimbrel.Http;

/// <summary>What becomes of symbolic links below the root of <see cref="HttpRoutes.Files"/>. The root itself may be one, whatever is chosen.</summary>
public enum HttpFileLinks
{
    /// <summary>Followed where they stay below the root; one that leaves it, or has an absolute target, leads to no file.</summary>
    Inside,

    /// <summary>They lead to no file.</summary>
    Refused,

    /// <summary>Followed wherever they lead. For roots in which nobody else can make links.</summary>
    Anywhere,
}
