using System.Buffers;

namespace Whimbrel.Conformance;

/// <summary>Member of <see cref="BadMemory"/> that throws.</summary>
public enum BadPlace
{
    /// <summary>None yet.</summary>
    None,
    Dispose,
    Unpin,
    Pin,
    Span,

    /// <summary><c>IMemoryOwner.Memory</c>, as for an owner that was disposed already.</summary>
    Memory,

    /// <summary>None, but the second access returns less memory than the first.</summary>
    Shorter,
}

/// <summary>A user's faulty memory. The first access, by the caller of Send, succeeds.</summary>
public sealed class BadMemory(int length) : MemoryManager<byte>
{
    private readonly byte[] _bytes = GC.AllocateArray<byte>(length, pinned: true);
    private readonly Shown _shown = new();
    private int _looks;

    /// <summary>Exception that it throws.</summary>
    public Exception Thrown { get; } = new InvalidDataException("thrown by the test");

    public BadPlace Place { get; set; }

    /// <summary>Number of pinned handles not released yet.</summary>
    public int Pins { get; private set; }

    public int Disposals => _shown.Disposals;

    /// <summary>Argument for Send.</summary>
    public IMemoryOwner<byte> Owner
    {
        get
        {
            _shown.Of = this;
            return _shown;
        }
    }

    public override Span<byte> GetSpan() => Place == BadPlace.Span ? throw Thrown : _bytes;

    public override unsafe MemoryHandle Pin(int elementIndex = 0)
    {
        if (Place == BadPlace.Pin) throw Thrown;
        Pins++;
        return new MemoryHandle((byte*)System.Runtime.CompilerServices.Unsafe.AsPointer(ref _bytes[0]) + elementIndex,
            default, this);
    }

    public override void Unpin()
    {
        Pins--;
        if (Place == BadPlace.Unpin) throw Thrown;
    }

    protected override void Dispose(bool disposing)
    {
        // Nothing to release.
    }

    private sealed class Shown : IMemoryOwner<byte>
    {
        private int _disposals;

        internal BadMemory Of { get; set; } = null!;

        internal int Disposals => Volatile.Read(ref _disposals);

        public Memory<byte> Memory
        {
            get
            {
                bool isFirst = Of._looks++ == 0;
                if (Of.Place == BadPlace.Memory && !isFirst) throw Of.Thrown;
                return Of.CreateMemory(Of.Place == BadPlace.Shorter && !isFirst ? 1 : Of._bytes.Length);
            }
        }

        public void Dispose()
        {
            Interlocked.Increment(ref _disposals);
            if (Of.Place == BadPlace.Dispose) throw Of.Thrown;
        }
    }
}
