using Microsoft.Extensions.Logging;

namespace Whimbrel.Hosting;

/// <summary>
/// Logs diagnostic events: one category per server and for the engine, one event id per kind, at most
/// <see cref="MostInPeriod"/> of a kind per minute. Any thread. A disabled level causes no allocation.
/// </summary>
internal sealed class NoticeLog(ILogger logger, TimeProvider clock)
{
    internal const int MostInPeriod = 10;

    private static readonly TimeSpan s_period = TimeSpan.FromMinutes(1);
    private static readonly Func<NoticeEntry, Exception?, string> s_format = static (entry, _) => entry.ToString();

    private readonly Lock _gate = new();
    private readonly Pace[] _paces = new Pace[Enum.GetValues<DiagnosticEventKind>().Length];

    internal void Write(DiagnosticEvent notice)
    {
        LogLevel level = LevelOf(notice.Kind);
        if (!logger.IsEnabled(level) || !MayTell(notice.Kind, out int leftOut)) return;
        logger.Log(level, new EventId((int)notice.Kind + 1, NameOf(notice.Kind)), new NoticeEntry(notice, leftOut),
            notice.Exception, s_format);
    }

    private static LogLevel LevelOf(DiagnosticEventKind kind) => kind switch
    {
        // Information only, because every port scan causes one.
        DiagnosticEventKind.TlsHandshake => LogLevel.Information,
        DiagnosticEventKind.UserException or DiagnosticEventKind.DescriptorLimit or DiagnosticEventKind.Certificate
        or DiagnosticEventKind.StopOverdue => LogLevel.Error,
        _ => LogLevel.Warning,
    };

    private static string? NameOf(DiagnosticEventKind kind) => Enum.GetName(kind);

    private bool MayTell(DiagnosticEventKind kind, out int leftOut)
    {
        leftOut = 0;
        if ((uint)kind >= (uint)_paces.Length) return true;
        lock (_gate)
        {
            ref Pace pace = ref _paces[(int)kind];
            long now = clock.GetTimestamp();
            if (pace.Told == 0 || clock.GetElapsedTime(pace.Began, now) >= s_period)
            {
                leftOut = pace.LeftOut;
                pace = new Pace { Began = now, Told = 1 };
                return true;
            }

            if (pace.Told < MostInPeriod)
            {
                pace.Told++;
                return true;
            }

            pace.LeftOut++;
            return false;
        }
    }

    private struct Pace
    {
        internal long Began;
        internal int Told;
        internal int LeftOut;
    }
}
