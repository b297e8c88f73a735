using System.Buffers;
using Whimbrel.Diagnostics;

namespace Whimbrel.Connections;

/// <summary>
/// Buffer in which the caller's thread encodes a broadcast: one form after the other, for each class that has members.
/// One instance for each thread, and one more for each broadcast that an encoder, a predicate or a diagnostic event
/// handler makes inside another.
/// </summary>
internal sealed class BroadcastForms : IBufferWriter<byte>
{
    private const int FirstBytes = 4 * 1024;

    /// <summary>A buffer that a large broadcast has enlarged beyond this size is not kept.</summary>
    private const int MostKeptBytes = 256 * 1024;

    [ThreadStatic]
    private static BroadcastForms? t_free;

    private readonly int[] _lengths = new int[SessionGroup.MemberClasses];
    private byte[] _buffer = new byte[FirstBytes];
    private int _written;

    private BroadcastForms()
    {
    }

    /// <summary>All forms in the order of their classes.</summary>
    internal ReadOnlyMemory<byte> Written => _buffer.AsMemory(0, _written);

    /// <summary>Length of each class's form; zero if there is none.</summary>
    internal int[] Lengths => _lengths;

    internal static BroadcastForms Take()
    {
        BroadcastForms forms = t_free ?? new BroadcastForms();
        t_free = null;
        return forms;
    }

    /// <summary>Returns the buffer to the calling thread, for its next broadcast. Any thread.</summary>
    internal void Return()
    {
        Array.Clear(_lengths);
        _written = 0;
        if (_buffer.Length > MostKeptBytes) _buffer = new byte[FirstBytes];
        t_free = this;
    }

    /// <summary>Calls the encoder once for each class. Its exceptions are thrown to the caller.</summary>
    /// <param name="classes">Set of classes, one bit for each.</param>
    /// <param name="state">Argument of the encoder.</param>
    /// <param name="encoder">Encoder of the user.</param>
    internal void Write<TState>(int classes, TState state, BroadcastEncoder<TState> encoder)
        where TState : allows ref struct
    {
        for (int i = 0; i < _lengths.Length; i++)
        {
            if ((classes & (1 << i)) == 0) continue;
            int start = _written;
            encoder(state, i, this);
            _lengths[i] = _written - start;
        }
    }

    public void Advance(int count)
    {
        if (count < 0 || count > _buffer.Length - _written)
            Throw.OutOfRange(nameof(count), count, $"between 0 and {_buffer.Length - _written}");
        _written += count;
    }

    public Memory<byte> GetMemory(int sizeHint = 0)
    {
        MakeRoom(sizeHint);
        return _buffer.AsMemory(_written);
    }

    public Span<byte> GetSpan(int sizeHint = 0)
    {
        MakeRoom(sizeHint);
        return _buffer.AsSpan(_written);
    }

    private void MakeRoom(int sizeHint)
    {
        if (sizeHint < 0) Throw.OutOfRange(nameof(sizeHint), sizeHint, "0 or more");
        int needed = Math.Max(sizeHint, 1);
        if (_buffer.Length - _written >= needed) return;
        Array.Resize(ref _buffer, (int)Math.Clamp(2L * _buffer.Length, (long)_written + needed, Array.MaxLength));
    }
}
