using System.Runtime.InteropServices;

namespace Whimbrel.Datagrams;

/// <summary>Native memory for queued datagrams. Owned by its queue.</summary>
// Safe: see DatagramQueue.
internal sealed unsafe class DatagramChunk
{
    internal DatagramChunk(int capacity)
    {
        Memory = capacity == 0 ? null : (byte*)NativeMemory.Alloc((nuint)capacity);
        Capacity = capacity;
    }

    internal byte* Memory { get; private set; }

    internal int Capacity { get; }

    internal int Used { get; set; }

    /// <summary>Number of entries with bytes in this chunk.</summary>
    internal int Live { get; set; }

    internal DatagramChunk? Next { get; set; }

    internal void Free()
    {
        NativeMemory.Free(Memory);
        Memory = null;
    }
}
