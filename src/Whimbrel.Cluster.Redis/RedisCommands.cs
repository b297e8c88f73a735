using System.Buffers.Text;
using System.Text;

namespace Whimbrel.Clusters;

/// <summary>What a bus says to a server, without I/O: arrays of bulks, so that nothing in them can be read as anything else.</summary>
internal static class RedisCommands
{
    /// <summary>PUBLISH with two lengths and all line ends, with room to spare.</summary>
    internal const int MostAroundPublish = 64;

    internal static readonly byte[] Ping = "*1\r\n$4\r\nPING\r\n"u8.ToArray();

    /// <summary>All of PUBLISH but the payload and the line end behind it.</summary>
    /// <param name="target">The length of the channel and <see cref="MostAroundPublish"/> at least.</param>
    /// <param name="prefix">ASCII, before the subject.</param>
    /// <param name="subject">ASCII.</param>
    /// <param name="payload">How many bytes follow.</param>
    /// <returns>How many bytes it has.</returns>
    internal static int WritePublish(Span<byte> target, string prefix, string subject, int payload)
    {
        ReadOnlySpan<byte> begin = "*3\r\n$7\r\nPUBLISH\r\n"u8;
        begin.CopyTo(target);
        int at = begin.Length;
        at += WriteLength(target[at..], prefix.Length + subject.Length);
        at += Encoding.ASCII.GetBytes(prefix, target[at..]);
        at += Encoding.ASCII.GetBytes(subject, target[at..]);
        "\r\n"u8.CopyTo(target[at..]);
        at += 2;
        return at + WriteLength(target[at..], payload);
    }

    /// <summary>Any command.</summary>
    internal static byte[] Write(params ReadOnlySpan<string> words)
    {
        RedisCommandWriter command = new RedisCommandWriter().Begin(words.Length);
        foreach (string word in words) command.Word(word);
        return command.Written.ToArray();
    }

    private static int WriteLength(Span<byte> target, int length)
    {
        target[0] = (byte)'$';
        Utf8Formatter.TryFormat(length, target[1..], out int digits);
        "\r\n"u8.CopyTo(target[(1 + digits)..]);
        return digits + 3;
    }
}
