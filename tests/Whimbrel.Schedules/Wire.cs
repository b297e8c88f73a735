namespace Whimbrel.Schedules;

/// <summary>The socket of one connection: what its peer has sent and read.</summary>
internal sealed class Wire
{
    /// <summary>Bytes that the peer has read.</summary>
    internal List<byte> Got { get; } = [];

    internal Queue<byte[]> Incoming { get; } = [];

    /// <summary>Most bytes that one system call takes.</summary>
    internal int Room { get; init; } = int.MaxValue;

    internal bool IsReceiving { get; set; }

    internal bool IsSending { get; set; }

    internal bool HasFin { get; set; }

    internal bool IsClosed { get; set; }

    internal bool IsReady => !IsClosed && ((IsReceiving && Incoming.Count > 0) || IsSending);

    internal int Write(ReadOnlySpan<byte> data)
    {
        if (IsClosed || HasFin) throw new ScheduleException("bytes were sent after the end of a connection");
        int count = Math.Min(data.Length, Room);
        Got.AddRange(data[..count]);
        return count;
    }
}
