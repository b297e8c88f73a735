using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace Whimbrel.Linux;

/// <summary>Reads and writes epoll events in the layout of the current machine.</summary>
internal static unsafe class EpollEvents
{
    /// <summary>True if the kernel packs the structure. A constant after JIT compilation.</summary>
    internal static bool IsPacked
    {
        [MethodImpl(MethodImplOptions.AggressiveInlining)]
        get => RuntimeInformation.ProcessArchitecture == Architecture.X64;
    }

    internal static readonly int Size = IsPacked ? sizeof(EpollEventPacked) : sizeof(EpollEventAligned);

    private static readonly bool s_packed = IsPacked;

    // Safe: the caller owns count * Size bytes at `events` and passes index < count.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal static void Read(byte* events, int index, out uint mask, out ulong data)
    {
        if (s_packed)
        {
            EpollEventPacked* e = (EpollEventPacked*)events + index;
            mask = e->Events;
            data = e->Data;
        }
        else
        {
            EpollEventAligned* e = (EpollEventAligned*)events + index;
            mask = e->Events;
            data = e->Data;
        }
    }

    // Safe: `target` points to at least 16 bytes.
    internal static void Write(byte* target, uint mask, ulong data)
    {
        if (s_packed)
        {
            ((EpollEventPacked*)target)->Events = mask;
            ((EpollEventPacked*)target)->Data = data;
        }
        else
        {
            ((EpollEventAligned*)target)->Events = mask;
            ((EpollEventAligned*)target)->Data = data;
        }
    }
}
