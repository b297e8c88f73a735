using System.Runtime.InteropServices;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.Tests.WebSockets;

/// <summary>Feeds a frame reader as a session does, and records the result: whole messages, control frames, and the
/// final rule.</summary>
internal sealed class FrameDriver(WebSocketRole role, long messageLimit = long.MaxValue, bool mayCompress = false)
{
    private readonly List<byte> _message = [];
    private WebSocketReader _reader = new(role, messageLimit, mayCompress);
    private Utf8Check _text;
    private byte[] _unread = [];
    private bool _began;

    internal FrameLog Log { get; } = new();

    internal List<string> Events => Log.ToList();

    internal WebSocketRule Rule { get; private set; }

    /// <summary>Bytes fed until the rule was reported. Must not be more than needed.</summary>
    internal int FedBytes { get; private set; }

    internal void Feed(ReadOnlySpan<byte> bytes)
    {
        if (Rule != WebSocketRule.None) return;
        FedBytes += bytes.Length;
        byte[] unread = [.. _unread, .. bytes];
        int at = 0;
        while (true)
        {
            WebSocketReading reading = _reader.Read(unread.AsSpan(at), out int taken);
            bool hasBytes = reading is WebSocketReading.Piece or WebSocketReading.Control;
            Span<byte> piece = hasBytes ? unread.AsSpan(at + _reader.Start, _reader.Length) : default;
            at += taken;
            switch (reading)
            {
                case WebSocketReading.NeedMore or WebSocketReading.Done:
                    _unread = unread[at..];
                    return;
                case WebSocketReading.Broken:
                    Break(_reader.Rule);
                    return;
                case WebSocketReading.Control:
                    Log.Tell(_reader.Opcode, isCompressed: false, piece);
                    break;
                default:
                    if (!TakePiece(piece)) return;
                    break;
            }
        }
    }

    private bool TakePiece(Span<byte> piece)
    {
        if (_reader.IsFirst == _began) Assert.Fail("a message begins twice, or has no beginning");
        _began = !_reader.IsLast;
        WebSocketMask.Apply(piece, _reader.Key);
        _message.AddRange(piece);
        bool isText = _reader.Opcode == WebSocketOpcode.Text && !_reader.IsCompressed;
        if (isText && (!_text.Add(piece) || (_reader.IsLast && !_text.IsComplete)))
        {
            Break(WebSocketRule.BadUtf8);
            return false;
        }

        if (!_reader.IsLast) return true;
        Log.Tell(_reader.Opcode, _reader.IsCompressed, CollectionsMarshal.AsSpan(_message));
        _message.Clear();
        return true;
    }

    private void Break(WebSocketRule rule)
    {
        Rule = rule;
        Log.Break(rule);
    }
}
