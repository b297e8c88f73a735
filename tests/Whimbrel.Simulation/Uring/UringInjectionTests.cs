using System.Diagnostics;
using Whimbrel.Engines.Uring;
using Whimbrel.Linux;
using Whimbrel.Simulation.Kernel;

namespace Whimbrel.Simulation.Uring;

// The io_uring engine on the running kernel with injected faults. The plan of a failing run is printed; the kernel's
// part differs between runs.
public sealed class UringInjectionTests
{
    private const int Scenarios = 2_000;
    private const int ScenariosOfAnEngine = 20;

    [Fact]
    public void No_fault_between_the_engine_and_the_kernel_loses_a_byte_or_a_connection()
    {
        Assert.SkipUnless(UringProbe.Here.IsOffered, UringProbe.Here.Reason);
        int before = Directory.GetFileSystemEntries("/proc/self/fd").Length;
        long faults = 0;
        Stopwatch watch = Stopwatch.StartNew();
        int scenarios = Depth.Of(Scenarios, deep: Scenarios * 10);
        for (int first = 0; first < scenarios; first += ScenariosOfAnEngine)
        {
            using InjectionScenario scenario = new(first);
            for (int i = 0; i < ScenariosOfAnEngine; i++) scenario.Run(first + i);
            faults += scenario.Faults;
        }

        TestContext.Current.TestOutputHelper!.WriteLine(
            $"{scenarios} scenarios, {faults} faults in {watch.Elapsed.TotalSeconds:0.0} s");
        Assert.True(faults > scenarios, $"{faults} faults only");
        Assert.InRange(Directory.GetFileSystemEntries("/proc/self/fd").Length, 0, before + 20);
    }

    // The ring receives small messages, calls receive large ones.
    [Theory]
    [InlineData(Errno.ENOMEM, 100)]
    [InlineData(Errno.ENOBUFS, 100)]
    [InlineData(Errno.ENOMEM, 100_000)]
    [InlineData(Errno.ENOBUFS, 100_000)]
    public void A_lack_of_memory_that_lasts_is_asked_about_now_and_then_and_ends_nothing(int error, int messageBytes)
    {
        Assert.SkipUnless(UringProbe.Here.IsOffered, UringProbe.Here.Reason);
        using InjectionScenario scenario = new(0);
        int tries = scenario.RunLasting(error, messageBytes, TimeSpan.FromMilliseconds(300));
        // 16 immediately, then one per 10 ms.
        Assert.InRange(tries, 2, 100);
    }
}
