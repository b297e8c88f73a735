using Xunit.v3;

namespace Whimbrel.Conformance;

/// <summary> Contract numbers at the head of <see cref="Session"/> that a test checks. docs/guarantees.md is generated
/// from them. </summary>
[AttributeUsage(AttributeTargets.Method)]
public sealed class ContractAttribute(params int[] numbers) : Attribute, ITraitAttribute
{
    public IReadOnlyList<int> Numbers { get; } = numbers;

    public IReadOnlyCollection<KeyValuePair<string, string>> GetTraits() =>
        [.. Numbers.Select(static n => KeyValuePair.Create("contract",
            n.ToString(System.Globalization.CultureInfo.InvariantCulture)))];
}
