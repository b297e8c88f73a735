using System.Runtime.InteropServices;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.Tests.WebSockets;

/// <summary>Reference reader of frames: one byte at a time, with big integers, and text validated from its beginning
/// for each frame. Slow, and short enough to be verified by reading.</summary>
internal static class PlainFrames
{
    internal static List<string> Read(ReadOnlySpan<byte> bytes, bool isServer, long limit, bool mayCompress)
    {
        FrameLog log = new();
        Read(bytes, isServer, limit, mayCompress, log);
        return log.ToList();
    }

    internal static void Read(ReadOnlySpan<byte> bytes, bool isServer, long limit, bool mayCompress, FrameLog log)
    {
        List<byte> message = [];
        int opcodeOfMessage = 0, empty = 0;
        UInt128 total = 0;
        bool isCompressed = false;
        int at = 0;
        while (at < bytes.Length)
        {
            int first = bytes[at];
            int opcode = first & 15;
            bool isFinal = first >= 128;
            WebSocketRule rule = 0;
            if ((first & 0x30) > 0) rule = WebSocketRule.ReservedBit;
            else if ((first & 0x40) > 0 && (!mayCompress || opcode is not (1 or 2))) rule = WebSocketRule.ReservedBit;
            else if (opcode is (> 2 and < 8) or > 10) rule = WebSocketRule.ReservedOpcode;
            else if (opcode == 0 && opcodeOfMessage == 0) rule = WebSocketRule.NothingToContinue;
            else if (opcode is 1 or 2 && opcodeOfMessage != 0) rule = WebSocketRule.MessageInMessage;
            else if (opcode >= 8 && !isFinal) rule = WebSocketRule.FragmentedControl;
            if (rule != 0) goto broken;
            if (at + 1 == bytes.Length) return;
            int second = bytes[at + 1];
            int digits = (second & 127) switch { 126 => 2, 127 => 8, _ => 0 };
            if (second >= 128 != isServer) rule = isServer ? WebSocketRule.NotMasked : WebSocketRule.Masked;
            else if (opcode >= 8 && digits > 0) rule = WebSocketRule.LongControl;
            else if (opcode == 8 && (second & 127) == 1) rule = WebSocketRule.CloseTooShort;
            if (rule != 0) goto broken;
            if (at + 2 + digits > bytes.Length) return;
            UInt128 length = (UInt128)(second & 127);
            if (digits > 0)
            {
                length = 0;
                foreach (byte digit in bytes.Slice(at + 2, digits)) length = length * 256 + digit;
                if (length >= (UInt128)1 << 63) rule = WebSocketRule.LengthTooLarge;
                else if (length < (UInt128)(digits == 2 ? 126 : 65536)) rule = WebSocketRule.LengthNotMinimal;
                if (rule != 0) goto broken;
            }

            if (opcode is 1 or 2) (total, empty, opcodeOfMessage, isCompressed) = (0, 0, opcode, (first & 0x40) > 0);
            if (opcode < 8)
            {
                total += length;
                if (total > (UInt128)limit) rule = WebSocketRule.MessageTooLarge;
                else if (length == 0 && ++empty > WebSocketReader.MostEmptyFrames && !isFinal)
                    rule = WebSocketRule.TooManyEmptyFrames;
                if (rule != 0) goto broken;
            }

            at += 2 + digits;
            byte[] key = [0, 0, 0, 0];
            if (isServer)
            {
                if (at + 4 > bytes.Length) return;
                key = bytes.Slice(at, 4).ToArray();
                at += 4;
            }

            int have = (int)UInt128.Min(length, (UInt128)(bytes.Length - at));
            byte[] payload = bytes.Slice(at, have).ToArray();
            for (int i = 0; i < have; i++) payload[i] ^= key[i & 3];
            at += have;
            bool isAll = (UInt128)have == length;
            if (opcode >= 8)
            {
                if (!isAll) return;
                if (opcode == 8 && payload.Length > 0)
                {
                    int status = payload[0] * 256 + payload[1];
                    bool isKnown = status
                        is 1000 or 1001 or 1002 or 1003 or 1007 or 1008 or 1009 or 1010 or 1011 or 1012 or 1013 or 1014;
                    if (!isKnown && status is < 3000 or > 4999) rule = WebSocketRule.BadCloseStatus;
                    else if (!IsText(payload.AsSpan(2), true)) rule = WebSocketRule.BadUtf8;
                    if (rule != 0) goto broken;
                }

                log.Tell((WebSocketOpcode)opcode, false, payload);
                if (opcode == 8) return;
                continue;
            }

            message.AddRange(payload);
            ReadOnlySpan<byte> soFar = CollectionsMarshal.AsSpan(message);
            if (opcodeOfMessage == 1 && !isCompressed && !IsText(soFar, isFinal && isAll)) rule = WebSocketRule.BadUtf8;
            if (rule != 0) goto broken;
            if (!isAll) return;
            if (!isFinal) continue;
            log.Tell((WebSocketOpcode)opcodeOfMessage, isCompressed, soFar);
            message.Clear();
            opcodeOfMessage = 0;
            continue;
        broken:
            log.Break(rule);
            return;
        }
    }

    // The grammar of RFC 3629, 4. Incomplete text may end inside a character that can still become valid.
    private static bool IsText(ReadOnlySpan<byte> bytes, bool isWhole)
    {
        for (int at = 0; at < bytes.Length;)
        {
            (int more, int low, int high) = bytes[at] switch
            {
                < 0x80 => (0, 0, 0),
                >= 0xC2 and <= 0xDF => (1, 0x80, 0xBF),
                0xE0 => (2, 0xA0, 0xBF),
                0xED => (2, 0x80, 0x9F),
                >= 0xE1 and <= 0xEF => (2, 0x80, 0xBF),
                0xF0 => (3, 0x90, 0xBF),
                >= 0xF1 and <= 0xF3 => (3, 0x80, 0xBF),
                0xF4 => (3, 0x80, 0x8F),
                _ => (-1, 0, 0),
            };
            if (more < 0) return false;
            for (int i = 1; i <= more; i++)
            {
                if (at + i == bytes.Length) return !isWhole;
                if (bytes[at + i] < low || bytes[at + i] > high) return false;
                (low, high) = (0x80, 0xBF);
            }

            at += 1 + more;
        }

        return true;
    }
}
