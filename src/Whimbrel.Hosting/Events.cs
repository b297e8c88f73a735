using Microsoft.Extensions.Logging;
using Whimbrel.Clusters;

namespace Whimbrel.Hosting;

/// <summary>
/// Log events other than diagnostic events. Their ids start at 100; those of diagnostic events are below.
/// </summary>
internal static partial class Events
{
    [LoggerMessage(100, LogLevel.Information, "{Server} listens at {Addresses} ({Engine})")]
    internal static partial void Started(ILogger logger, string server, string addresses, string engine);

    [LoggerMessage(101, LogLevel.Information, "{Server} has stopped: {Report}")]
    internal static partial void Stopped(ILogger logger, string server, StopReport report);

    [LoggerMessage(102, LogLevel.Information, "{Path} has changed and applies from now on: {Value}")]
    internal static partial void Applied(ILogger logger, string path, string value);

    [LoggerMessage(103, LogLevel.Warning, "{Path} has changed and applies from the next start of the program")]
    internal static partial void AppliesLater(ILogger logger, string path);

    [LoggerMessage(104, LogLevel.Error,
        "The changed configuration of {Server} is not used, what was there before stays in use: {Mistakes}")]
    internal static partial void NotUsed(ILogger logger, string server, string mistakes);

    [LoggerMessage(105, LogLevel.Error, "The scope of a session of {Server} threw when it was disposed")]
    internal static partial void ScopeThrew(ILogger logger, string server, Exception exception);

    [LoggerMessage(106, LogLevel.Error, "{Server} has not stopped")]
    internal static partial void StopFailed(ILogger logger, string server, Exception exception);

    [LoggerMessage(107, LogLevel.Warning,
        "{Server}: {Count} scopes of sessions are still being disposed, and the host's patience is over")]
    internal static partial void ScopesLeft(ILogger logger, string server, int count);

    [LoggerMessage(108, LogLevel.Information, "{Server} is node {Node} of {Application}: {Bus}")]
    internal static partial void NodeJoined(ILogger logger, string server, string node, string application, string bus);

    [LoggerMessage(EventId = 109, Message = "{Server} is {State} in its cluster: {Text}")]
    internal static partial void NodeState(ILogger logger, LogLevel level, string server, ClusterState state,
        string text);

    [LoggerMessage(110, LogLevel.Warning, "{Server}: another process has its node id: {Text}")]
    internal static partial void NodeTwin(ILogger logger, string server, string text);

    [LoggerMessage(111, LogLevel.Information, "{Server}, node {Node}, has left its cluster")]
    internal static partial void NodeLeft(ILogger logger, string server, string node);

    [LoggerMessage(112, LogLevel.Warning, "{Server}, node {Node}, has not left its cluster in time")]
    internal static partial void NodeNotLeft(ILogger logger, string server, string node, Exception exception);

    [LoggerMessage(113, LogLevel.Information, "Process {Process} has given its sockets to this one ({Path})")]
    internal static partial void TookOver(ILogger logger, int process, string path);

    [LoggerMessage(114, LogLevel.Information, "A new process has the sockets of this one ({Path}): the host stops")]
    internal static partial void Replaced(ILogger logger, string path);

    [LoggerMessage(115, LogLevel.Information, "Not ready from now on; the servers stop accepting in {Time}")]
    internal static partial void Leaving(ILogger logger, TimeSpan time);
}
