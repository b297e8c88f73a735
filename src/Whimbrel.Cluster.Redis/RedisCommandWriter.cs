using System.Buffers;
using System.Globalization;
using System.Text;

namespace Whimbrel.Clusters;

/// <summary>Commands one behind the other, without I/O: arrays of bulks, so that nothing in them can be read as anything else.</summary>
internal sealed class RedisCommandWriter
{
    private readonly ArrayBufferWriter<byte> _bytes = new();

    internal ReadOnlySpan<byte> Written => _bytes.WrittenSpan;

    /// <summary>Begins a command of so many words, its name the first.</summary>
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
