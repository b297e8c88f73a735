using System.Globalization;

namespace Whimbrel.Allocations;

// A call and its response allocate nothing: on a loop that has both ends, and from the thread pool.
public sealed class CallAllocationTests
{
    private const int Attempts = 5;

    public static TheoryData<string> Engines => Rig.Engines;

    private sealed class Echo() : CallSession(CallFormat.LengthPrefix())
    {
        protected override void OnCall(ulong id, ReadOnlySpan<byte> request) => Answer(id, request);
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void A_call_and_its_answer_allocate_nothing(string engine)
    {
        using Rig rig = new(engine, static () => new Echo());
        CallClient client = new(new ClientOptions { Engine = rig.Engine, EndPoint = rig.Server.EndPoint });
        Rig.Wait(client.ConnectAsync().AsTask());
        RepeatingCaller caller = new(client);
        rig.Meter.ExpectNone($"{RepeatingCaller.Calls} calls on the loop", 4, () =>
        {
            rig.Engine.GetLoop(0).Post(caller.Begin);
            caller.Wait();
        });

        // From other threads, the continuation runs on any pool thread: all threads are counted, and the best attempt
        // is taken.
        double best = double.MaxValue;
        for (int attempt = 0; attempt < Attempts; attempt++)
        {
            long before = GC.GetTotalAllocatedBytes(precise: true);
            caller.Begin();
            caller.Wait();
            best = Math.Min(best, (double)(GC.GetTotalAllocatedBytes(precise: true) - before) / RepeatingCaller.Calls);
        }

        string line = string.Create(CultureInfo.InvariantCulture,
            $"a call from the thread pool: {best:0.##} bytes in the whole process");
        TestContext.Current.TestOutputHelper!.WriteLine(line);
        Assert.True(best < 1, line);
        Assert.True(caller.EachIsWhole);
        Rig.Wait(client.DisposeAsync().AsTask());
    }
}
