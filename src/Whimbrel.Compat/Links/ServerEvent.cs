namespace Whimbrel.Compat.Links;

/// <summary>A step in the life of a server, in the order in which they come.</summary>
internal enum ServerEvent
{
    Starting,
    Started,
    Stopping,
    Stopped,
}
