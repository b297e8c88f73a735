using System.Numerics;
using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.Tests.WebSockets;

/// <summary>Reads frames as the RFC tells it, one byte at a time, with numbers that cannot overflow: slow, and short enough to be right.</summary>
internal static class PlainFrames
{
    internal static List<string> Read(byte[] bytes, bool isServer, long limit, bool mayCompress)
    {
        List<string> events = [];
        List<byte> message = [];
        int opcodeOfMessage = 0, empty = 0;
        BigInteger total = 0;
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
            if (rule != 0) return [.. events, $"! {rule}"];
            if (at + 1 == bytes.Length) return events;
            int second = bytes[at + 1];
            if (second >= 128 != isServer) return [.. events, $"! {(isServer ? WebSocketRule.NotMasked : WebSocketRule.Masked)}"];
            int digits = (second & 127) switch { 126 => 2, 127 => 8, _ => 0 };
            if (opcode >= 8 && digits > 0) return [.. events, $"! {WebSocketRule.LongControl}"];
            if (opcode == 8 && (second & 127) == 1) return [.. events, $"! {WebSocketRule.CloseTooShort}"];
            if (at + 2 + digits > bytes.Length) return events;
            BigInteger length = second & 127;
            if (digits > 0)
            {
                length = new BigInteger(bytes.AsSpan(at + 2, digits), isUnsigned: true, isBigEndian: true);
                if (length >= BigInteger.Pow(2, 63)) return [.. events, $"! {WebSocketRule.LengthTooLarge}"];
                if (length < (digits == 2 ? 126 : 65536)) return [.. events, $"! {WebSocketRule.LengthNotMinimal}"];
            }

            if (opcode is 1 or 2) (total, empty, opcodeOfMessage, isCompressed) = (0, 0, opcode, (first & 0x40) > 0);
            if (opcode < 8)
            {
                total += length;
                if (total > limit) return [.. events, $"! {WebSocketRule.MessageTooLarge}"];
                if (length == 0 && ++empty > WebSocketReader.MostEmptyFrames && !isFinal) return [.. events, $"! {WebSocketRule.TooManyEmptyFrames}"];
            }

            at += 2 + digits;
            byte[] key = new byte[4];
            if (isServer)
            {
                if (at + 4 > bytes.Length) return events;
                key = bytes[at..(at + 4)];
                at += 4;
            }

            int have = (int)BigInteger.Min(length, bytes.Length - at);
            byte[] payload = bytes[at..(at + have)];
            for (int i = 0; i < have; i++) payload[i] ^= key[i & 3];
            at += have;
            if (opcode >= 8)
            {
                if (have < length) return events;
                if (opcode == 8 && payload.Length > 0)
                {
                    int status = payload[0] * 256 + payload[1];
                    bool isKnown = status is 1000 or 1001 or 1002 or 1003 or 1007 or 1008 or 1009 or 1010 or 1011 or 1012 or 1013 or 1014;
                    if (!isKnown && status is < 3000 or > 4999) return [.. events, $"! {WebSocketRule.BadCloseStatus}"];
                    if (!IsText(payload[2..], true)) return [.. events, $"! {WebSocketRule.BadUtf8}"];
                }

                events.Add($"{(WebSocketOpcode)opcode} {Encoding.Latin1.GetString(payload)}");
                if (opcode == 8) return events;
                continue;
            }

            message.AddRange(payload);
            bool isWhole = isFinal && have == length;
            if (opcodeOfMessage == 1 && !isCompressed && !IsText([.. message], isWhole)) return [.. events, $"! {WebSocketRule.BadUtf8}"];
            if (have < length) return events;
            if (!isFinal) continue;
            events.Add($"{(WebSocketOpcode)opcodeOfMessage}{(isCompressed ? "*" : "")} {Encoding.Latin1.GetString([.. message])}");
            message.Clear();
            opcodeOfMessage = 0;
        }

        return events;
    }

    private static bool IsText(byte[] bytes, bool isWhole)
    {
        Decoder decoder = new UTF8Encoding(false, throwOnInvalidBytes: true).GetDecoder();
        try
        {
            _ = decoder.GetCharCount(bytes, flush: isWhole);
            return true;
        }
        catch (DecoderFallbackException)
        {
            return false;
        }
    }
}
