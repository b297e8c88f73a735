#:project ../../src/Whimbrel/Whimbrel.csproj
// Enough of the protocol of Redis (RESP) that redis-cli works: PING, ECHO, GET, SET, DEL.
// Try it: redis-cli -p 6379 SET name anna
using System.Collections.Concurrent;
using System.Text;
using Whimbrel;

ConcurrentDictionary<string, byte[]> store = [];
await using Server server = new(args.FirstOrDefault() ?? "tcp://127.0.0.1:6379", () => new RedisSession(store));
await server.StartAsync();
Console.WriteLine($"Listening at {server.EndPoint}. Ctrl-C stops.");
await StopSignal.WaitAsync();

sealed class RedisSession(ConcurrentDictionary<string, byte[]> store) : Session
{
    protected override int OnData(ReadOnlySpan<byte> unread)
    {
        ReadOnlySpan<byte> rest = unread;
        try
        {
            // A client that sends commands and reads no answers has to wait; the rest comes again later.
            while (!IsAboveHighWaterMark && ReadCommand(ref rest) is { } command) Execute(command);
        }
        catch (FormatException e)
        {
            ReportProtocolError(e);
            Send($"-ERR Protocol error: {e.Message}\r\n");
            Close();
        }

        return unread.Length - rest.Length;
    }

    private void Execute(byte[][] command)
    {
        switch (NameOf(command[0]).ToUpperInvariant(), command)
        {
            case ("PING", [_]): Send("+PONG\r\n"); break;
            case ("PING" or "ECHO", [_, var text]): SendBulk(text); break;
            case ("GET", [_, var key]): SendBulk(store.GetValueOrDefault(NameOf(key))); break;
            case ("SET", [_, var key, var value]): store[NameOf(key)] = value; Send("+OK\r\n"); break;
            case ("DEL", [_, .. var keys]): Send($":{keys.Count(k => store.TryRemove(NameOf(k), out _))}\r\n"); break;
            default: Send("-ERR unknown command or wrong number of arguments\r\n"); break;
        }
    }

    private SendResult SendBulk(byte[]? value) => value is null ? Send("$-1\r\n")
        : Send(Outgoing.Pieces([Encoding.ASCII.GetBytes($"${value.Length}\r\n"), value, "\r\n"u8.ToArray()]));

    private static string NameOf(byte[] key) => Encoding.Latin1.GetString(key);

    // *2 CRLF $3 CRLF GET CRLF $4 CRLF name CRLF. What is not whole yet stays unread.
    private static byte[][]? ReadCommand(ref ReadOnlySpan<byte> unread)
    {
        ReadOnlySpan<byte> rest = unread;
        if (!TryReadNumber(ref rest, '*', 1, 1024, out int count)) return null;
        byte[][] command = new byte[count][];
        for (int i = 0; i < count; i++)
        {
            if (!TryReadNumber(ref rest, '$', 0, 512 * 1024, out int length) || rest.Length < length + 2) return null;
            command[i] = rest[..length].ToArray();
            rest = rest[(length + 2)..];
        }

        unread = rest;
        return command;
    }

    private static bool TryReadNumber(ref ReadOnlySpan<byte> rest, char mark, int least, int most, out int number)
    {
        number = 0;
        int end = rest.IndexOf("\r\n"u8);
        if (end < 0 && rest.Length < 20) return false;
        if (end < 2 || rest[0] != mark || !int.TryParse(rest[1..end], out number) || number < least || number > most)
            throw new FormatException($"expected '{mark}' and a number from {least} to {most}");
        rest = rest[(end + 2)..];
        return true;
    }
}
