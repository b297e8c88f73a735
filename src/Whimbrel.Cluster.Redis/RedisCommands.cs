using System.Buffers.Text;
using System.Text;

namespace Whimbrel.Clusters;

/// <summary>
/// Commands from a bus to a server, without I/O. Commands are arrays of bulk strings, which excludes injection.
/// </summary>
internal static class RedisCommands
{
    /// <summary>More than the length of PUBLISH with two lengths and all line ends.</summary>
    internal const int MostAroundPublish = 64;

    internal static readonly byte[] Ping = "*1\r\n$4\r\nPING\r\n"u8.ToArray();

    /// <summary>Writes PUBLISH up to the payload.</summary>
    /// <param name="target">Buffer of at least the length of the channel plus <see cref="MostAroundPublish"/>.</param>
    /// <param name="prefix">Prefix of the channel, ASCII.</param>
    /// <param name="subject">Subject, ASCII.</param>
    /// <param name="payload">Length of the payload.</param>
    /// <returns>Number of bytes written.</returns>
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

    /// <summary>Returns a command of these words.</summary>
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
