namespace Whimbrel.Http;

/// <summary>Handling of symbolic links below the root of <see cref="HttpRoutes.Files"/>. The root itself may always be
/// one.</summary>
public enum HttpFileLinks
{
    /// <summary>Links are followed if they stay below the root. One that leaves it, or has an absolute target, leads to
    /// no file.</summary>
    Inside,

    /// <summary>Links lead to no file.</summary>
    Refused,

    /// <summary>All links are followed. For roots in which no other user can create links.</summary>
    Anywhere,
}
