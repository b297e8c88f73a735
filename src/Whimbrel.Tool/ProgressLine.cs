using System.Diagnostics;
using System.Globalization;

namespace Whimbrel.Tool;

/// <summary>Progress of a long body as one terminal line, removed at the end. It appears after half a second, with at
/// most five updates a second. One thread at a time.</summary>
internal sealed class ProgressLine(LiveLines lines)
{
    private const int SilentMs = 500;
    private const int EveryMs = 200;
    private const int MostBar = 40;
    private const int LeastBar = 8;

    private readonly long _start = Stopwatch.GetTimestamp();
    private long _last;

    /// <summary>Creates a line on stderr, if that is a terminal; otherwise nothing is drawn.</summary>
    internal static ProgressLine OnTerminal() => new(LiveLines.OnTerminal());

    /// <param name="what">Name of the operation.</param>
    /// <param name="done">Number of bytes so far.</param>
    /// <param name="total">Number of bytes in total, or -1.</param>
    internal void Show(string what, long done, long total)
    {
        if (!lines.IsShown || Stopwatch.GetElapsedTime(_last).TotalMilliseconds < EveryMs) return;
        TimeSpan elapsed = Stopwatch.GetElapsedTime(_start);
        if (elapsed.TotalMilliseconds < SilentMs) return;
        _last = Stopwatch.GetTimestamp();
        lines.Show(Format(what, done, total, elapsed, lines.Width));
    }

    internal void Clear() => lines.Clear();

    internal static string Format(string what, long done, long total, TimeSpan elapsed, int width)
    {
        double perSecond = elapsed.TotalSeconds > 0 ? done / elapsed.TotalSeconds : 0;
        string text;
        if (total > 0 && done <= total)
        {
            double seconds = perSecond > 0 ? Math.Ceiling(Math.Min((total - done) / perSecond, 1e8)) : 0;
            string left = perSecond > 0 ? $", {UnitText.RoundTime(TimeSpan.FromSeconds(seconds))} left" : "";
            text = string.Create(CultureInfo.InvariantCulture,
                $"{done * 100.0 / total:0} %, {UnitText.RoundBytes(done)} of {UnitText.RoundBytes(total)}, "
                + $"{UnitText.RoundBytes((long)perSecond)}/s{left}");
            int bar = Math.Min(width - text.Length - what.Length - 4, MostBar);
            if (bar >= LeastBar)
                text = $"[{new string('#', (int)(bar * (double)done / total)).PadRight(bar, '.')}] {text}";
        }
        else
        {
            text = $"{UnitText.RoundBytes(done)}, {UnitText.RoundBytes((long)perSecond)}/s";
        }

        text = $"{what} {text}";
        return text.Length > width ? text[..width] : text;
    }
}
