using System.Buffers;

namespace Whimbrel.Simulation;

// Memory that is passed on with a send: its owner disposes it once, which fills it with garbage.
internal sealed class CountedMemory(World world, byte[] data) : IMemoryOwner<byte>
{
    private bool _isDisposed;

    public Memory<byte> Memory => data;

    public void Dispose()
    {
        if (_isDisposed) world.Fail("memory that was passed was disposed twice");
        _isDisposed = true;
        world.OwnedAlive--;
        data.AsSpan().Fill(0xEE);
    }
}
