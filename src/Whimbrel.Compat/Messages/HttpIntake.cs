using Buffer = NetCoreServer.Buffer;

namespace Whimbrel.Compat;

/// <summary>
/// Passes the bytes of an original session or client to an HTTP parser. Unparsed bytes are kept until more arrive;
/// bytes after an upgrade are reported unchanged. Receives on one thread at a time.
/// </summary>
internal abstract class HttpIntake
{
    private readonly Buffer _unread = new();
    private volatile bool _isOver;

    /// <summary>True if nothing more is read. Any thread.</summary>
    protected bool IsOver
    {
        get => _isOver;
        set => _isOver = value;
    }

    protected bool HasUnread => !_unread.IsEmpty;

    /// <summary>True if the bytes belong to another protocol from now on.</summary>
    protected abstract bool IsUpgraded { get; }

    /// <summary>Parses messages until there are no more, or nothing more is to be read.</summary>
    /// <returns>Number of bytes parsed.</returns>
    protected abstract int Read(ReadOnlySpan<byte> bytes);

    protected abstract void TellUpgraded(byte[] buffer);

    /// <summary>Called after each step.</summary>
    protected virtual void Taken()
    {
    }

    internal void Receive(byte[] buffer, long offset, long size)
    {
        if (_isOver) return;
        if (!_unread.IsEmpty)
        {
            _unread.Append(buffer, offset, size);
            (buffer, offset, size) = (_unread.Data, 0, _unread.Size);
        }

        int taken = Read(buffer.AsSpan((int)offset, (int)size));
        ReadOnlySpan<byte> rest = buffer.AsSpan((int)offset + taken, (int)size - taken);
        if (IsUpgraded && !_isOver)
        {
            // A copy, because the session may start again in the callback.
            byte[] behind = rest.ToArray();
            End();
            if (behind.Length > 0) TellUpgraded(behind);
        }
        else if (_isOver) _unread.Clear();
        else if (!_unread.IsEmpty) _unread.Remove(0, taken);
        else _unread.Append(rest);
        Taken();
    }

    /// <summary>Resets the state for the next connection.</summary>
    protected void Restart()
    {
        _unread.Clear();
        _isOver = false;
    }

    protected void End()
    {
        _isOver = true;
        _unread.Clear();
    }
}
