using System.Diagnostics;

namespace Whimbrel.Connections;

/// <summary>
/// Gives all TLS handshakes together a share of each turn of their loop, after all other work. Handshakes run in order
/// of arrival; the input of waiting ones is kept by their connections. One for each loop; its thread only.
/// docs/design/0016-tls.md has the figures.
/// </summary>
internal sealed class HandshakePace
{
    private static readonly long s_mostTicks = Stopwatch.Frequency * 300 / 1_000_000;

    private readonly Queue<TlsTransport> _waiting = new();
    private long _spentTicks; // in this turn
    private long _helloTicks, _stepTicks; // moving averages of one step
    private bool _isRunning;

    /// <summary>Longest time of handshakes in a turn, in ticks of Stopwatch.</summary>
    internal static long MostTicks => s_mostTicks;

    internal bool Any => _waiting.Count > 0;

    internal void TurnBegins() => _spentTicks = 0;

    /// <summary>
    /// Returns whether a step of a handshake may run now. A step waits for the next turn if, by the average of recent
    /// ones, it would exceed the share of this turn. One step always runs.
    /// </summary>
    internal bool HasTime(bool isHello) =>
        _isRunning && (_spentTicks == 0 || _spentTicks + (isHello ? _helloTicks : _stepTicks) <= s_mostTicks);

    /// <summary>Queues a handshake, which continues by <see cref="TlsTransport.RunHandshake"/>.</summary>
    internal void Add(TlsTransport transport) => _waiting.Enqueue(transport);

    internal void Count(bool isHello, long ticks)
    {
        _spentTicks += ticks;
        // A step delayed by the JIT compiler or another process does not predict the next one.
        ticks = Math.Min(ticks, s_mostTicks);
        ref long average = ref isHello ? ref _helloTicks : ref _stepTicks;
        average += (ticks - average) / 8;
    }

    internal void Begin() => _isRunning = true;

    internal void End() => _isRunning = false;

    /// <summary>
    /// Runs steps of waiting handshakes until the time is used up. Handshakes that are queued again meanwhile wait for
    /// the next turn.
    /// </summary>
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
