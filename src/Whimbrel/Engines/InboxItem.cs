using System.Buffers;
using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace Whimbrel.Engines;

/// <summary>What the loop does with an entry of an inbox. The first three have bytes.</summary>
internal enum InboxKind : byte
{
    Send,
    SendOwned,
    SendFile,
    SendOperation,
    Close,
    ShutdownSend,
    BroadcastGate,
    HoldSends,
    Upgrade,
    Offer,
    Mark,
    Paced,
}

/// <summary>
/// One entry of a <see cref="SendInbox"/>: copied bytes of one or several messages, or another step that is ordered
/// with them. Or a block with messages for several connections, to parts of which other entries refer
/// (<see cref="Payload"/>). It comes from the <see cref="InboxItems"/> of a loop and returns there. An entry has one
/// owner at a time: the thread that fills it, the inbox, the loop, and for large data the send queue, which disposes it
/// when the kernel has accepted the bytes. A shared block counts its references and returns with the last one.
/// </summary>
// Safe: this object owns its memory: a pinned array that it refers to, or native memory until Free, which is called
// when nothing refers to it. Span checks lengths.
internal sealed unsafe class InboxItem : MemoryManager<byte>
{
    /// <summary>Size of the first block of an inbox.</summary>
    internal const int SmallCapacity = 1024;
    internal const int Capacity = 32 * 1024;

    private readonly InboxItems _home;
    private readonly byte[]? _pinned; // of a small entry
    private byte* _memory; // native if large: the queue sends from it, and it is freed after a burst
    private int _references; // of a shared block

    internal InboxItem(InboxItems home, int capacity)
    {
        _home = home;
        Size = capacity;
        if (capacity == 0) return;
        if (capacity > SmallCapacity)
        {
            _memory = (byte*)NativeMemory.Alloc((nuint)capacity);
            return;
        }

        _pinned = GC.AllocateUninitializedArray<byte>(capacity, pinned: true);
        _memory = (byte*)Unsafe.AsPointer(ref MemoryMarshal.GetArrayDataReference(_pinned));
    }

    internal InboxKind Kind { get; set; }

    /// <summary>True for bytes, which the sender has reserved on the connection.</summary>
    internal bool HasBytes => Kind <= InboxKind.SendFile;

    /// <summary>Generation of the connection that the sender addressed.</summary>
    internal uint Generation { get; set; }

    /// <summary>Number of items in the mailbox of the loop that take effect before this entry.</summary>
    internal long Stamp { get; set; }

    /// <summary>Bytes that the sender has reserved on the connection.</summary>
    internal int Length { get; set; }

    /// <summary>Bytes that are charged to <see cref="EngineOptions.MailboxLimitBytes"/>.</summary>
    internal int Charge { get; set; }

    /// <summary>Number of messages in the copied bytes.</summary>
    internal int Messages { get; set; }

    /// <summary>
    /// Memory, file, operation or value; for a part of a shared block that block; null for copied bytes.
    /// </summary>
    internal object? Payload { get; set; }

    /// <summary>
    /// Offset of the bytes in the memory of <see cref="Payload"/>, or in its own, if a direct send has sent a part.
    /// </summary>
    internal int Offset { get; set; }

    internal InboxItem? Next { get; set; }

    internal int Size { get; }

    internal Span<byte> Room => GetSpan()[(Offset + Length)..];

    internal ReadOnlySpan<byte> Written => GetSpan().Slice(Offset, Length);

    /// <summary>First of the copied bytes. Valid until the entry is returned.</summary>
    internal byte* First => _memory + Offset;

    /// <summary>Appends a copy. <see cref="Room"/> must be large enough.</summary>
    internal void Write(ReadOnlySpan<byte> data)
    {
        data.CopyTo(Room);
        Length += data.Length;
    }

    public override Span<byte> GetSpan() => new(_memory, Size);

    /// <summary>The memory does not move.</summary>
    public override MemoryHandle Pin(int elementIndex = 0) => new(_memory + elementIndex);

    public override void Unpin()
    {
    }

    /// <summary>Returns it. Any thread.</summary>
    internal void Return() => _home.Return(this);

    /// <summary>Returns it together with the other entries of this step. Loop's thread.</summary>
    internal void ReturnHere() => _home.ReturnHere(this);

    /// <summary>References to a shared block; 0 for an entry with one owner.</summary>
    internal int References => Volatile.Read(ref _references);

    internal void AddReferences(int count) => Interlocked.Add(ref _references, count);

    /// <summary>
    /// Releases one reference; the last one returns the block. Returns an entry with one owner. Loop's thread.
    /// </summary>
    internal void Release()
    {
        if (_references == 0) ReturnHere();
        else Release(1);
    }

    /// <summary>Releases references; the last one returns the block. Any thread that holds them.</summary>
    internal void Release(int count)
    {
        int left = Interlocked.Add(ref _references, -count);
        Debug.Assert(left >= 0, "a shared block was released twice");
        if (left == 0) Return();
    }

    /// <summary>Frees the native memory of an entry that is not reused.</summary>
    internal void Free()
    {
        if (_pinned is null) NativeMemory.Free(_memory);
        _memory = null;
    }

    /// <summary>Called by the send queue when the kernel has accepted the bytes.</summary>
    protected override void Dispose(bool disposing)
    {
        if (_references == 0) Return();
        else Release(1);
    }
}
