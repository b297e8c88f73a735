using System.Runtime.CompilerServices;

namespace Whimbrel.Allocations;

// Sequential calls, as async code makes them, but without the state machine that such code allocates.
internal sealed class RepeatingCaller
{
    internal const int Calls = 500;

    private readonly CallClient _client;
    private readonly byte[] _request = new byte[1000];
    private readonly Action _goOn;
    private readonly ManualResetEventSlim _done = new();
    private ValueTask<CallAnswer> _call;
    private int _left;

    internal RepeatingCaller(CallClient client)
    {
        _client = client;
        _goOn = GoOn;
        Begin = Start;
    }

    // Created once.
    internal Action Begin { get; }

    internal bool EachIsWhole { get; private set; } = true;

    internal void Wait()
    {
        Assert.True(_done.Wait(LoopMeter.Patience), "The calls were not answered.");
        _done.Reset();
    }

    private void Start()
    {
        _left = Calls;
        Pump();
    }

    private void GoOn()
    {
        Take();
        Pump();
    }

    private void Take()
    {
        using CallAnswer answer = _call.GetAwaiter().GetResult();
        EachIsWhole &= answer.Span.Length == _request.Length;
    }

    private void Pump()
    {
        while (_left-- > 0)
        {
            _call = _client.CallAsync(_request);
            ValueTaskAwaiter<CallAnswer> awaiter = _call.GetAwaiter();
            if (!awaiter.IsCompleted)
            {
                awaiter.UnsafeOnCompleted(_goOn);
                return;
            }

            Take();
        }

        _done.Set();
    }
}
