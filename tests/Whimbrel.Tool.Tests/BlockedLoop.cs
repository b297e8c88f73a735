using System.Reflection;

namespace Whimbrel.Tool.Tests;

// Inside of the tool, as a hook of its start: the first line on its stdin blocks loop 0 of its engine for good.
internal static class BlockedLoop
{
    public const string Told = "loop 0 is blocked";

    public static void WaitForOrder() => new Thread(Run) { IsBackground = true }.Start();

    private static void Run()
    {
        if (Console.In.ReadLine() is null) return;
        // The watchdog knows all engines of a process, and nobody else does.
        var known = typeof(Engine).Assembly.GetType("Whimbrel.Engines.Watchdog")!.GetField("s_engines", BindingFlags.Static | BindingFlags.NonPublic)!;
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
