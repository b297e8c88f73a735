using System.Text;

namespace Whimbrel.Tool.Top;

/// <summary><c>whimbrel top</c>: polls the status socket and shows it as a terminal screen, or otherwise as lines.
/// Errors go to stderr.</summary>
internal static class TopCommand
{
    private const string Enter = "\e[?1049h\e[?25l"; // alternate screen, cursor hidden
    private const string Leave = "\e[?25h\e[?1049l";
    private const string Home = "\e[H";
    private const string ClearLine = "\e[K";
    private const string ClearRest = "\e[J";

    internal static async Task<int> RunAsync(TopSettings settings)
    {
        Task stop = StopSignal.WaitAsync();
        using CancellationTokenSource ending = new();
        _ = stop.ContinueWith(_ => ending.Cancel(), CancellationToken.None,
            TaskContinuationOptions.ExecuteSynchronously, TaskScheduler.Default);
        if (settings.Duration is { } duration) ending.CancelAfter(duration);
        try
        {
            string path = settings.Path ?? TopFinder.PathOf(settings.ProcessId);
            if (settings.Json) await PrintAsync(path, ending.Token);
            else await WatchAsync(path, settings.Every, ending.Token);
            return ExitCode.Done;
        }
        catch (OperationCanceledException)
        {
            return ExitCode.Done;
        }
        catch (TopException e)
        {
            await Console.Error.WriteLineAsync($"whimbrel: {e.Message}");
            return ExitCode.Failed;
        }
        catch (IOException)
        {
            // The reader of stdout has exited, as head does.
            return ExitCode.Done;
        }
    }

    private static async Task PrintAsync(string path, CancellationToken ending)
    {
        (byte[] line, _) = await TopSource.ReadAsync(path, ending);
        await Console.Out.WriteLineAsync(Encoding.UTF8.GetString(line));
    }

    private static async Task WatchAsync(string path, TimeSpan every, CancellationToken ending)
    {
        (_, TopSnapshot now) = await TopSource.ReadAsync(path, ending);
        TopSnapshot? before = null;
        bool isScreen = !Console.IsOutputRedirected;
        using PeriodicTimer timer = new(every);
        try
        {
            if (isScreen) await Console.Out.WriteAsync(Enter);
            while (true)
            {
                if (isScreen) await DrawAsync(before, now);
                else if (before is not null) await Console.Out.WriteLineAsync(TopView.Line(before, now));
                await timer.WaitForNextTickAsync(ending);
                (before, now) = (now, await AskAgainAsync(path, ending));
            }
        }
        finally
        {
            if (isScreen) await Console.Out.WriteAsync(Leave);
        }
    }

    private static async Task<TopSnapshot> AskAgainAsync(string path, CancellationToken ending)
    {
        try
        {
            return (await TopSource.ReadAsync(path, ending)).Snapshot;
        }
        catch (TopException e)
        {
            throw new TopException($"The server has stopped, or its status is gone. {e.Message}");
        }
    }

    private static Task DrawAsync(TopSnapshot? before, TopSnapshot now)
    {
        // Read each time, because the size changes. Some terminals do not report it.
        int width = Console.WindowWidth is > 1 and int columns ? columns : 80;
        int height = Console.WindowHeight is > 1 and int rows ? rows : 24;
        StringBuilder screen = new(Home);
        List<string> lines = TopView.Screen(before, now, width, height);
        for (int i = 0; i < lines.Count; i++)
        {
            if (i > 0) screen.Append("\r\n");
            screen.Append(lines[i]).Append(ClearLine);
        }

        // One write, so that the screen does not flicker.
        return Console.Out.WriteAsync(screen.Append(ClearRest).ToString());
    }
}
