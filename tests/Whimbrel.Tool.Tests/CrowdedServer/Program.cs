using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Runtime.InteropServices;

namespace Whimbrel.CrowdedServer;

// A server in a process with few descriptors and with sessions that need threads and assemblies that are not loaded
// yet. Arguments: the engine, inline or pool, number of descriptors left free at the start (0: all), number of the
// highest descriptors to occupy. On stdout: "listening PORT"; for each line of stdin "now SESSIONS", except that "hold"
// blocks the loops until "go"; after SIGTERM and a drained stop, the counters.
internal static class Program
{
    private const int Highest = 1 << 16;

    private static readonly TaskCompletionSource s_full = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private static readonly ManualResetEventSlim s_goOn = new();
    private static int s_notices;

    public static async Task<int> Main(string[] args)
    {
        Task stop = StopSignal.WaitAsync();
        int left = int.Parse(args[2], CultureInfo.InvariantCulture);
        using var held = Holding(int.Parse(args[3], CultureInfo.InvariantCulture));
        await using var engine = new Engine(new EngineOptions
        {
            Kind = Enum.Parse<EngineKind>(args[0], ignoreCase: true),
            Loops = 2,
            OnDiagnosticEvent = Report
        });
        var scheduling = args[1] == "pool" ? Scheduling.ThreadPool : Scheduling.Inline;
        await using var server = new Server(new ServerOptions
        {
            Engine = engine,
            EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
            Scheduling = scheduling
        }, () => new Answers());
        try
        {
            await server.StartAsync();
        }
        catch (NetworkException e)
        {
            Console.Error.WriteLine(e.Message);
            return 1;
        }

        if (left > 0) Fill(left);
        Console.WriteLine($"listening {((IPEndPoint)server.EndPoint!).Port}");
        var asked = new Thread(() =>
        {
            while (Console.ReadLine() is { } line)
            {
                if (line == "go") s_goOn.Set();
                if (line != "hold") Console.WriteLine($"now {server.SessionCount}");
                else for (int i = 0; i < engine.LoopCount; i++) engine.GetLoop(i).Post(Stand);
            }
        })
        { IsBackground = true };
        asked.Start();
        await stop;
        var report = await server.StopAsync(TimeSpan.FromSeconds(1));
        var counters = server.ReadCounters();
        Console.WriteLine($"accepted {counters.Accepted} shed {counters.Shed} notices {Volatile.Read(ref s_notices)} "
            + $"left {report.Drained + report.Aborted}");
        return 0;
    }

    private static void Stand()
    {
        Console.WriteLine("holding");
        s_goOn.Wait();
    }

    // A diagnostic event about a slow loop iteration depends on the machine and is ignored.
    private static void Report(DiagnosticEvent notice)
    {
        if (notice.Kind != DiagnosticEventKind.DescriptorLimit) return;
        Interlocked.Increment(ref s_notices);
        s_full.TrySetResult();
    }

    // Opens files, which take the lowest free descriptors, until only this many are left.
    private static void Fill(int left)
    {
        using var file = new FileStream("/dev/null", FileMode.Open, FileAccess.Read);
        for (int number = 0, last = Limit() - left; number < last;)
        {
            number = Duplicate((int)file.SafeFileHandle.DangerousGetHandle());
            if (number < 0) throw new IOException("no descriptor was left");
        }
    }

    // Occupies the highest descriptors, like a program that moves its descriptors away.
    private static FileStream? Holding(int count)
    {
        if (count == 0) return null;
        var file = new FileStream("/dev/null", FileMode.Open, FileAccess.Read);
        for (int i = 1; i <= count; i++) _ = Duplicate((int)file.SafeFileHandle.DangerousGetHandle(), Limit() - i);
        return file;
    }

    private static int Limit()
    {
        string line = File.ReadLines("/proc/self/limits")
            .First(static l => l.StartsWith("Max open files", StringComparison.Ordinal));
        return Math.Min(Highest, int.Parse(line["Max open files".Length..].Split(' ',
            StringSplitOptions.RemoveEmptyEntries)[0], CultureInfo.InvariantCulture));
    }

    [DllImport("libc", EntryPoint = "dup")]
    private static extern int Duplicate(int from);

    [DllImport("libc", EntryPoint = "dup2")]
    private static extern int Duplicate(int from, int to);

    private sealed class Answers : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data)
        {
            byte[] copy = data.ToArray();
            _ = Task.Run(async () =>
            {
                await s_full.Task;
                // Formatting an exception loads half a dozen assemblies.
                try
                {
                    throw new UnreachableException();
                }
                catch (UnreachableException e)
                {
                    if (e.ToString().Length > 0) Send(copy);
                }
            });
        }
    }
}
