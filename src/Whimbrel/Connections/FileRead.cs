using System.Buffers;
using Whimbrel.Buffers;

namespace Whimbrel.Connections;

/// <summary>
/// One piece of a file, read on the thread pool for a connection with an engine or TLS layer that needs it in memory. A
/// disk may be slow, and a loop must not wait for it. Owner of that memory, which is queued as it is. The size of a
/// piece limits the file data that a connection has in memory.
/// </summary>
internal sealed class FileRead : IMemoryOwner<byte>
{
    /// <summary>Enough for several sends, so that the switch to the pool and back is worthwhile.</summary>
    internal const int MostBytes = 128 * 1024;

    private readonly Connection _connection;
    private readonly uint _generation;
    private readonly Loop _loop;
    private readonly OpenFile _file;
    private readonly long _offset;
    private readonly int _length;
    private byte[]? _bytes;

    private FileRead(Connection connection, Block block)
    {
        _connection = connection;
        _generation = connection.Generation;
        _loop = connection.Loop;
        _file = block.File!;
        _file.LendOn();
        _offset = block.FileOffset + block.Start;
        _length = Math.Min(block.Length, MostBytes);
    }

    Memory<byte> IMemoryOwner<byte>.Memory => _bytes;

    /// <summary>Number of bytes read. 0 without a fault: the end of the file.</summary>
    internal int Count { get; private set; }

    internal Exception? Fault { get; private set; }

    internal static FileRead Start(Connection connection, Block file)
    {
        FileRead read = new(connection, file);
        read._loop.Engine.Offload(static r => ((FileRead)r!).Run(), read);
        return read;
    }

    private void Run()
    {
        try
        {
            _bytes = ArrayPool<byte>.Shared.Rent(_length);
            while (Count < _length)
            {
                int read = RandomAccess.Read(_file.Handle, _bytes.AsSpan(Count, _length - Count), _offset + Count);
                if (read == 0) break;
                Count += read;
            }
        }
        catch (Exception e)
        {
            Fault = e;
        }

        _file.EndLoan();
        if (!_loop.PostControl(static (_, r, _, _) => ((FileRead)r!).Return(), this)) Dispose();
    }

    private void Return()
    {
        if (_connection.Generation == _generation) _connection.Outbound.FileWasRead(this);
        else Dispose();
    }

    /// <summary>Called when the piece was sent, or is not needed any more. Any thread.</summary>
    public void Dispose()
    {
        if (_bytes is { } bytes) ArrayPool<byte>.Shared.Return(bytes);
        _bytes = null;
    }
}
