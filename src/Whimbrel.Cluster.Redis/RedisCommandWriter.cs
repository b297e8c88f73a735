using System.Buffers;
using System.Globalization;
using System.Text;

namespace Whimbrel.Clusters;

/// <summary>
/// Writer of a sequence of commands, without I/O. Commands are arrays of bulk strings, which excludes injection.
/// </summary>
internal sealed class RedisCommandWriter
{
    private readonly ArrayBufferWriter<byte> _bytes = new();

    internal ReadOnlySpan<byte> Written => _bytes.WrittenSpan;

    /// <summary>Begins a command with a number of words, including its name.</summary>
    internal RedisCommandWriter Begin(int words) => Head('*', words);

    internal RedisCommandWriter Word(ReadOnlySpan<byte> word)
    {
        Head('$', word.Length);
        _bytes.Write(word);
        _bytes.Write("\r\n"u8);
        return this;
    }

    internal RedisCommandWriter Word(string word) => Word(Encoding.UTF8.GetBytes(word));

    private RedisCommandWriter Head(char kind, int number)
    {
        _bytes.Write(Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $"{kind}{number}\r\n")));
        return this;
    }
}
