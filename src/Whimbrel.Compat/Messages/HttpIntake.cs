using Buffer = NetCoreServer.Buffer;

namespace Whimbrel.Compat;

/// <summary>
/// Bytes as an old session or client has them, for a reader of HTTP: what it did not take stays until more has come, and what stands behind an upgrade is told
/// as it came. Received on one thread at a time.
/// </summary>
internal abstract class HttpIntake
{
    private readonly Buffer _unread = new();
    private volatile bool _isOver;

    /// <summary>Nothing is read any more. Any thread.</summary>
    protected bool IsOver
    {
        get => _isOver;
        set => _isOver = value;
    }

    protected bool HasUnread => !_unread.IsEmpty;

    /// <summary>The bytes belong to another protocol from now on.</summary>
    protected abstract bool IsUpgraded { get; }

    /// <summary>Reads messages, until there are no more, or nothing more is to be read.</summary>
    /// <returns>How many bytes were taken.</returns>
    protected abstract int Read(ReadOnlySpan<byte> bytes);

    protected abstract void TellUpgraded(byte[] buffer);

    /// <summary>Behind each step.</summary>
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
            // A copy: the session may begin anew meanwhile.
            byte[] behind = rest.ToArray();
            End();
            if (behind.Length > 0) TellUpgraded(behind);
        }
        else if (_isOver) _unread.Clear();
        else if (!_unread.IsEmpty) _unread.Remove(0, taken);
        else _unread.Append(rest);
        Taken();
    }

    /// <summary>For the next connection.</summary>
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
