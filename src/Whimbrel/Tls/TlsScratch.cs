using System.Runtime.CompilerServices;

namespace Whimbrel.Tls;

/// <summary>
/// Memory that all layers on one loop share, because none needs it between two calls, such as the plaintext of one
/// record. Owner: the loop (tests create their own). Loop's thread only.
/// </summary>
internal sealed class TlsScratch
{
    internal const int PlainBytes = 32 * 1024;

    /// <summary>Pinned permanently, so that native code may write into it.</summary>
    internal byte[] Plain { get; } = GC.AllocateUninitializedArray<byte>(PlainBytes, pinned: true);

    // Safe: the array is pinned permanently.
    internal unsafe byte* PlainPointer => (byte*)Unsafe.AsPointer(ref Plain[0]);

    /// <summary>
    /// Number of layers with state in native memory of OpenSSL. Any thread changes it, by Interlocked.
    /// </summary>
    internal int NativeLayers;

    /// <summary>Last requested server name, to share the string with the next client that requests it.</summary>
    internal string? LastName { get; set; }

    /// <summary>Presents plaintext of native blocks to APIs that require Memory.</summary>
    internal NativeView View { get; } = new();

    /// <summary>
    /// Output of the running Receive. Other connections may send in the meantime, with <see cref="Outgoing"/>.
    /// </summary>
    internal CipherBlock Answer { get; } = new();

    /// <summary>Output of any other call.</summary>
    internal CipherBlock Outgoing { get; } = new();

    /// <summary>Buffer for small blocks of plaintext that become one record.</summary>
    internal byte[] Joined { get; } = GC.AllocateUninitializedArray<byte>(16 * 1024, pinned: true);
}
