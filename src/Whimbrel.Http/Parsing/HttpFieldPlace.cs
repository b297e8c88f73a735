namespace Whimbrel.Http.Parsing;

/// <summary>Where a field stands in the bytes of its head.</summary>
/// <param name="NameStart">Offset of the name.</param>
/// <param name="ValueStart">Offset of the value, spaces around it left out.</param>
/// <param name="ValueLength">Bytes of the value.</param>
/// <param name="NameLength">Bytes of the name.</param>
/// <param name="Field">Which it is, if it is one of the known.</param>
internal readonly record struct HttpFieldPlace(int NameStart, int ValueStart, int ValueLength, ushort NameLength, HttpField Field);
