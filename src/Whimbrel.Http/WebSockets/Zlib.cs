using System.Runtime.InteropServices;

namespace Whimbrel.Http.WebSockets;

/// <summary>
/// zlib as exported by .NET. Its public streams have no window bits, and cannot continue after a flush with the
/// caller's memory; RFC 7692 needs both. Safe to call with an initialized state of <see cref="NewStream"/> that was not
/// freed, and with buffers pinned for the call: zlib keeps no pointer to them.
/// </summary>
internal static unsafe partial class Zlib
{
    internal const int Ok = 0;
    internal const int StreamEnd = 1;
    internal const int BufferError = -5;

    internal const int NoFlush = 0;
    internal const int SyncFlush = 2;
    internal const int Block = 5;
    internal const int FullFlush = 3;
    internal const int Finish = 4;

    internal const int Deflated = 8;
    internal const int DefaultStrategy = 0;

    private const string Library = "libSystem.IO.Compression.Native";

    /// <summary>State of the native side, in its layout.</summary>
    [StructLayout(LayoutKind.Sequential)]
    internal struct Stream
    {
        internal byte* NextIn;
        internal byte* NextOut;
        internal byte* Message;
        private nint _state;
        internal uint AvailableIn;
        internal uint AvailableOut;
    }

    /// <summary>Allocates a state in memory that does not move, because zlib keeps its address.</summary>
    internal static Stream* NewStream() => (Stream*)NativeMemory.AllocZeroed((nuint)sizeof(Stream));

    internal static void Free(ref Stream* stream)
    {
        NativeMemory.Free(stream);
        stream = null;
    }

    [DllImport(Library, EntryPoint = "CompressionNative_DeflateInit2_")]
    internal static extern int DeflateInit(Stream* stream, int level, int method, int windowBits, int memoryLevel,
        int strategy);

    [DllImport(Library, EntryPoint = "CompressionNative_Deflate")]
    internal static extern int Deflate(Stream* stream, int flush);

    [DllImport(Library, EntryPoint = "CompressionNative_DeflateEnd")]
    internal static extern int DeflateEnd(Stream* stream);

    [DllImport(Library, EntryPoint = "CompressionNative_InflateInit2_")]
    internal static extern int InflateInit(Stream* stream, int windowBits);

    [DllImport(Library, EntryPoint = "CompressionNative_Inflate")]
    internal static extern int Inflate(Stream* stream, int flush);

    [DllImport(Library, EntryPoint = "CompressionNative_InflateReset2_")]
    internal static extern int InflateReset(Stream* stream, int windowBits);

    [DllImport(Library, EntryPoint = "CompressionNative_InflateEnd")]
    internal static extern int InflateEnd(Stream* stream);
}
