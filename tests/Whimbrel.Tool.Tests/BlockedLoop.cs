using System.Reflection;

namespace Whimbrel.Tool.Tests;

// Runs inside the tool, as a startup hook: the first line on stdin blocks loop 0 of its engine permanently.
internal static class BlockedLoop
{
    public const string Told = "loop 0 is blocked";

    public static void WaitForOrder() => new Thread(Run) { IsBackground = true }.Start();

    private static void Run()
    {
        if (Console.In.ReadLine() is null) return;
        // Only the watchdog has a list of all engines of a process.
        var known = typeof(Engine).Assembly.GetType("Whimbrel.Engines.Watchdog")!.GetField("s_engines",
            BindingFlags.Static | BindingFlags.NonPublic)!;
        var engine = ((Engine[])known.GetValue(null)!).Single();
        engine.GetLoop(0).Post(Block);
    }

    private static void Block()
    {
        Console.Error.WriteLine(Told);
        using ManualResetEventSlim never = new();
        never.Wait();
    }
}
