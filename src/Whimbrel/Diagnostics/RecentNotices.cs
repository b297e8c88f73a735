namespace Whimbrel.Diagnostics;

/// <summary>
/// The last diagnostic events of an engine, in memory. The oldest one is replaced at <see cref="Most"/>. Any thread.
/// </summary>
internal sealed class RecentNotices
{
    /// <summary>Maximum number of events.</summary>
    internal const int Most = 100;

    /// <summary>Maximum number of characters that are kept of a message.</summary>
    internal const int MostText = 1_000;

    private readonly Lock _gate = new();
    private readonly Queue<RecentNotice> _kept = new();

    internal void Add(DateTimeOffset at, in DiagnosticEvent notice)
    {
        // The exception is not kept: it could keep objects of the application alive.
        string message = notice.Message.Length <= MostText ? notice.Message : $"{notice.Message[..MostText]}...";
        // tidy: allowed because diagnostic events are rare
        lock (_gate)
        {
            if (_kept.Count == Most) _kept.Dequeue();
            _kept.Enqueue(new RecentNotice(at, notice.Kind, message, notice.Page));
        }
    }

    /// <summary>Returns a copy, the newest event first.</summary>
    internal RecentNotice[] Read()
    {
        // tidy: allowed because only the status socket and the dashboard read
        lock (_gate)
        {
            RecentNotice[] all = [.. _kept];
            Array.Reverse(all);
            return all;
        }
    }
}

/// <summary>A diagnostic event that has been reported.</summary>
/// <param name="At">Time of the report.</param>
/// <param name="Kind">Subject.</param>
/// <param name="Message">Message, possibly cut.</param>
/// <param name="Page">Page below docs/symptoms.</param>
internal readonly record struct RecentNotice(DateTimeOffset At, DiagnosticEventKind Kind, string Message, string Page);
