using Whimbrel.Engines;

namespace Whimbrel.Streams;

/// <summary>The one read of a stream that may be under way, used again for the next. Owner: its session.</summary>
internal sealed class StreamRead : Completion<int>
{
    private readonly StreamSession _session;

    internal StreamRead(StreamSession session)
        : base(session.Loop.Engine) => _session = session;

    /// <summary>The caller's memory; received bytes are copied straight into it. Empty for a read that only waits for some.</summary>
    internal Memory<byte> Into { get; private set; }

    internal CancellationToken Cancellation { get; private set; }

    internal void Begin(Memory<byte> into, CancellationToken cancellation)
    {
        Into = into;
        Cancellation = cancellation;
    }

    private protected override void Consumed()
    {
        Into = default;
        Cancellation = default;
        Reset();
        _session.EndReading();
    }
}
