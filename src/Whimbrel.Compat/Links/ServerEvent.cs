namespace Whimbrel.Compat.Links;

/// <summary>Events of a server, in their order.</summary>
internal enum ServerEvent
{
    Starting,
    Started,
    Stopping,
    Stopped,
}
