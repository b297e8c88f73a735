using System.Runtime.CompilerServices;

namespace Whimbrel.Allocations;

// Sequential SendAsync calls, as async code makes them, but without the state machine that such code allocates.
internal sealed class WaitingSender
{
    internal const int Messages = 60;
    internal const int MessageBytes = 48 * 1024;

    private readonly byte[] _message = new byte[MessageBytes];
    private readonly Action _goOn;
    private ScriptedSession? _session;
    private ValueTask<SendResult> _sending;
    private int _left;

    internal WaitingSender() => _goOn = GoOn;

    internal int Waits { get; private set; }

    internal int Begin(ScriptedSession session, ReadOnlySpan<byte> unread)
    {
        _session = session;
        _left = Messages;
        Pump();
        return unread.Length;
    }

    private void GoOn()
    {
        if (_sending.GetAwaiter().GetResult() != SendResult.Queued) return;
        Pump();
    }

    private void Pump()
    {
        while (_left-- > 0)
        {
            _sending = _session!.SendAsync(_message);
            ValueTaskAwaiter<SendResult> awaiter = _sending.GetAwaiter();
            if (!awaiter.IsCompleted)
            {
                Waits++;
                awaiter.UnsafeOnCompleted(_goOn);
                return;
            }

            if (awaiter.GetResult() != SendResult.Queued) return;
        }
    }
}
