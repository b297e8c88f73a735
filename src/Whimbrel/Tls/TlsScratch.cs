using System.Runtime.CompilerServices;

namespace Whimbrel.Tls;

/// <summary>
/// What all layers on one loop share because none needs it between two calls: room for the plaintext of one record. Owner: the
/// loop (a test makes its own). Loop's thread only.
/// </summary>
internal sealed class TlsScratch
{
    internal const int PlainBytes = 32 * 1024;

    /// <summary>Pinned for good, so that native code may write into it.</summary>
    internal byte[] Plain { get; } = GC.AllocateUninitializedArray<byte>(PlainBytes, pinned: true);

    // Safe: the array is pinned for its whole life.
    internal unsafe byte* PlainPointer => (byte*)Unsafe.AsPointer(ref Plain[0]);

    /// <summary>The name that a client asked for last, to be shared with the next who asks for it.</summary>
    internal string? LastName { get; set; }

    /// <summary>Shows plaintext of native blocks to APIs that want Memory.</summary>
    internal NativeView View { get; } = new();

    /// <summary>What a Receive that runs puts out. Others may send meanwhile, so they have <see cref="Outgoing"/>.</summary>
    internal CipherBlock Answer { get; } = new();

    /// <summary>What any other call puts out.</summary>
    internal CipherBlock Outgoing { get; } = new();

    /// <summary>Small blocks of plaintext that become one record.</summary>
    internal byte[] Joined { get; } = GC.AllocateUninitializedArray<byte>(16 * 1024, pinned: true);
}
