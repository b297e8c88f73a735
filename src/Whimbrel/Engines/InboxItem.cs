using System.Buffers;
using System.Diagnostics;
using System.Runtime.InteropServices;

namespace Whimbrel.Engines;

/// <summary>
/// One entry of a <see cref="SendInbox"/>: copied bytes of one or several messages, or something else that has its place
/// among them. Or a block of messages that go to several connections: other entries
/// refer to parts of it (<see cref="Payload"/>). Comes from the <see cref="InboxItems"/> of a loop and returns there. An entry has one owner at a
/// time: the thread that fills it, the inbox, the loop, and for large bytes the send queue, which disposes it when the
/// system has taken them. A block of several counts its references and returns with the last one.
/// </summary>
// Safe: the native memory is this object's from its birth until Free, which is called when nothing refers to it; lengths are checked by Span.
internal sealed unsafe class InboxItem : MemoryManager<byte>
{
    /// <summary>Size of the first block of an inbox.</summary>
    internal const int SmallCapacity = 1024;
    internal const int Capacity = 32 * 1024;

    private readonly InboxItems _home;
    private readonly byte[] _bytes;
    private byte* _native; // of the large ones: the queue sends out of it, and a burst goes back to the process
    private int _references; // of a block that several share

    internal InboxItem(InboxItems home, int capacity)
    {
        _home = home;
        _bytes = capacity == SmallCapacity ? GC.AllocateUninitializedArray<byte>(capacity) : [];
        if (capacity > SmallCapacity) _native = (byte*)NativeMemory.Alloc((nuint)capacity);
        Size = capacity;
    }

    internal DataKind Kind { get; set; }

    /// <summary>Generation of the tenant that the sender meant.</summary>
    internal uint Generation { get; set; }

    /// <summary>Number of items that the mailbox of the loop had taken when this was appended: it takes effect after them.</summary>
    internal long Stamp { get; set; }

    /// <summary>Bytes that the sender has reserved on the connection.</summary>
    internal int Length { get; set; }

    /// <summary>Bytes that are charged to <see cref="EngineOptions.MailboxLimitBytes"/>.</summary>
    internal int Charge { get; set; }

    /// <summary>Number of messages in the copied bytes.</summary>
    internal int Messages { get; set; }

    /// <summary>Memory, file, operation or value of an entry that is not copied bytes; block of one whose bytes others get, too.</summary>
    internal object? Payload { get; set; }

    /// <summary>Offset of the bytes in the memory of <see cref="Payload"/>.</summary>
    internal int Offset { get; set; }

    internal InboxItem? Next { get; set; }

    internal int Size { get; }

    internal Span<byte> Room => GetSpan()[Length..];

    internal ReadOnlySpan<byte> Written => GetSpan()[..Length];

    /// <summary>Appends a copy. There is room.</summary>
    internal void Write(ReadOnlySpan<byte> data)
    {
        data.CopyTo(Room);
        Length += data.Length;
    }

    public override Span<byte> GetSpan() => _native == null ? _bytes : new Span<byte>(_native, Size);

    /// <summary>Only of native memory, which does not move.</summary>
    public override MemoryHandle Pin(int elementIndex = 0) => new(_native + elementIndex);

    public override void Unpin()
    {
    }

    /// <summary>Returns it. Any thread.</summary>
    internal void Return() => _home.Return(this);

    /// <summary>Returns it, with others that the loop returns in the same turn. Loop's thread.</summary>
    internal void ReturnHere() => _home.ReturnHere(this);

    /// <summary>References of a block that several share; zero of an entry that has one owner.</summary>
    internal int References => Volatile.Read(ref _references);

    internal void AddReferences(int count) => Interlocked.Add(ref _references, count);

    /// <summary>Gives references back, and the block with the last one. An entry that has one owner is returned. Loop's thread.</summary>
    internal void Release()
    {
        if (_references == 0) ReturnHere();
        else Release(1);
    }

    /// <summary>Gives references back, and the block with the last one. Any thread that has them.</summary>
    internal void Release(int count)
    {
        int left = Interlocked.Add(ref _references, -count);
        Debug.Assert(left >= 0, "a shared block was released twice");
        if (left == 0) Return();
    }

    /// <summary>It is not kept.</summary>
    internal void Free()
    {
        NativeMemory.Free(_native);
        _native = null;
    }

    /// <summary>By the send queue, when the bytes have left.</summary>
    protected override void Dispose(bool disposing)
    {
        if (_references == 0) Return();
        else Release(1);
    }
}
