using System.Collections.Concurrent;
using Whimbrel.Linux;

namespace Whimbrel.Conformance;

/// <summary>Records the descriptors passed to the hook, and reads options back from the sockets. Linux only.</summary>
public sealed class MadeSockets
{
    private readonly ConcurrentQueue<(SocketRole Role, int Descriptor)> _made = new();

    /// <summary>Value for <see cref="ConnectionSocketOptions.OnCreated"/>.</summary>
    public void Report(NewSocket socket) => _made.Enqueue((socket.Role, (int)socket.Descriptor));

    public IReadOnlyList<SocketRole> Roles => [.. _made.Select(static m => m.Role)];

    public int Count(SocketRole role) => _made.Count(m => m.Role == role);

    /// <summary>Integer option of the n-th socket of a role, which must still be open.</summary>
    public int Read(SocketRole role, int level, int name, int index = 0)
    {
        byte[] bytes = ReadBytes(role, level, name, sizeof(int), index);
        return bytes.Length == sizeof(int)
            ? BitConverter.ToInt32(bytes)
            : throw new InvalidOperationException($"{bytes.Length} bytes");
    }

    // Safe: the kernel writes at most `length` bytes.
    public unsafe byte[] ReadBytes(SocketRole role, int level, int name, int length, int index = 0)
    {
        int descriptor = _made.Where(m => m.Role == role).ElementAt(index).Descriptor;
        byte[] bytes = new byte[length];
        uint count = (uint)length;
        fixed (byte* p = bytes)
            Assert.True(Syscall.GetSocketOption(descriptor, level, name, p, &count) == 0,
                $"getsockopt({level}, {name}) of the {role}: error {Syscall.LastError}");
        return bytes[..(int)count];
    }
}
