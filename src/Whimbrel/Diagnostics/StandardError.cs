namespace Whimbrel.Diagnostics;

/// <summary>
/// Writes diagnostic events to standard error, for programs that have set no callback for them. Uses a thread of its
/// own, because a terminal or a pipe may block, and loops must not.
/// </summary>
internal static class StandardError
{
    private const int MostInMinute = 100;
    private const int LastsMs = 2_000; // lifetime of the thread without anything to write

    private static readonly object s_gate = new();
    private static readonly Queue<string> s_lines = new();
    private static long s_minuteEndsMs;
    private static int s_leftOfMinute;
    private static bool s_isRunning;

    /// <summary>
    /// Returns the text of a diagnostic event: one line, followed by the exception with its stack trace.
    /// </summary>
    internal static string TextOf(DiagnosticEvent notice) =>
        $"Whimbrel: {notice.Message} {notice.Help}{(notice.Exception is { } thrown ? ErrorText.TraceOf(thrown) : "")}";

    internal static void Write(string line)
    {
        // tidy: allowed because something has already failed when there is an event, and the writer holds it briefly
        lock (s_gate)
        {
            long now = Environment.TickCount64;
            if (now >= s_minuteEndsMs)
            {
                s_minuteEndsMs = now + 60_000;
                s_leftOfMinute = MostInMinute;
            }

            if (s_leftOfMinute == 0) return;
            s_lines.Enqueue(--s_leftOfMinute > 0 ? line : $"{line} (Further notices of this minute are left out.)");
            Monitor.Pulse(s_gate);
            if (s_isRunning) return;
            s_isRunning = true;
        }

        try
        {
            new Thread(Run) { IsBackground = true, Name = "whimbrel-notices" }.UnsafeStart();
        }
        catch (Exception e) when (e is OutOfMemoryException or ThreadStartException)
        {
            // No thread could be created: the next line tries again.
            // tidy: allowed because something has already failed when there is an event
            lock (s_gate) s_isRunning = false;
        }
    }

    private static void Run()
    {
        while (Next() is { } line)
        {
            try
            {
                Console.Error.WriteLine(line);
            }
            catch (IOException)
            {
                // The reader of standard error has closed it.
            }
        }
    }

    private static string? Next()
    {
        // tidy: allowed because it is the writer's own thread
        lock (s_gate)
        {
            while (s_lines.Count == 0)
            {
                if (Monitor.Wait(s_gate, LastsMs) || s_lines.Count > 0) continue;
                s_isRunning = false;
                return null;
            }

            return s_lines.Dequeue();
        }
    }
}
