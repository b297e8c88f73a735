using System.Diagnostics;

namespace Whimbrel.Connections;

/// <summary>
/// TLS handshakes have a part of each turn of their loop, all together, behind everybody's answers. First come, first served: what waits here has
/// its input kept by its connection. One for each loop; its thread only. docs/design/0016-tls.md has the figures.
/// </summary>
internal sealed class HandshakePace
{
    private static readonly long s_mostTicks = Stopwatch.Frequency * 300 / 1_000_000;

    private readonly Queue<TlsTransport> _waiting = new();
    private long _spentTicks; // in this turn
    private long _helloTicks, _stepTicks; // what one takes, lately
    private bool _isRunning;

    /// <summary>The most that handshakes have of a turn, in ticks of Stopwatch.</summary>
    internal static long MostTicks => s_mostTicks;

    internal bool Any => _waiting.Count > 0;

    internal void TurnBegins() => _spentTicks = 0;

    /// <summary>
    /// Whether a step of a handshake may be made now. A step that by the average of the last ones would end after their part of the turn waits for the
    /// next turn; one is always made.
    /// </summary>
    internal bool HasTime(bool isHello) => _isRunning && (_spentTicks == 0 || _spentTicks + (isHello ? _helloTicks : _stepTicks) <= s_mostTicks);

    /// <summary>Its handshake goes on when its time has come: <see cref="TlsTransport.RunHandshake"/>.</summary>
    internal void Add(TlsTransport transport) => _waiting.Enqueue(transport);

    internal void Count(bool isHello, long ticks)
    {
        _spentTicks += ticks;
        // One that was held up (by the compiler, or by another process) says little about the next.
        ticks = Math.Min(ticks, s_mostTicks);
        ref long average = ref isHello ? ref _helloTicks : ref _stepTicks;
        average += (ticks - average) / 8;
    }

    internal void Begin() => _isRunning = true;

    internal void End() => _isRunning = false;

    /// <summary>Makes steps for whoever waits now, until the time is up; what comes in again meanwhile waits for the next turn.</summary>
    internal void Run(Loop loop)
    {
        Begin();
        for (int count = _waiting.Count; count > 0; count--)
        {
            TlsTransport transport = _waiting.Peek();
            try
            {
                if (!transport.RunHandshake()) break;
            }
            catch (Exception e) when (loop.Outlives(e))
            {
                loop.Outlive(e, transport?.Connection);
            }

            _waiting.Dequeue();
        }

        End();
    }
}
