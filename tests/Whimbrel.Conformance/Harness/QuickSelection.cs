using System.Collections.Concurrent;
using System.Reflection;

namespace Whimbrel.Conformance;

/// <summary> The selection of `./test --quick`: each test in one class of its suite, and in each class at least one
/// test. So each suite still runs on every combination of engine, transport, TLS and scheduling that its classes cover,
/// in a tenth of the time. </summary>
internal static class QuickSelection
{
    private static readonly ConcurrentDictionary<Type, (int Index, string[] Tests, int Classes)> s_places = new();

    internal static void SkipOthers(Type testClass)
    {
        if (!Depth.IsQuick || TestContext.Current.TestMethod?.MethodName is not { } test) return;
        (int index, string[] tests, int classes) = s_places.GetOrAdd(testClass, static type => PlaceOf(type));
        int number = Array.IndexOf(tests, test);
        Assert.SkipUnless(number < 0 || IsChosen(number, tests.Length, index, classes),
            "With --quick another class of this suite runs the test.");
    }

    /// <summary>Whether the test runs in this class: both are numbered within the suite.</summary>
    internal static bool IsChosen(int test, int tests, int index, int classes)
    {
        int groups = Math.Min(tests, classes);
        return test % groups == index % groups;
    }

    private static (int Index, string[] Tests, int Classes) PlaceOf(Type testClass)
    {
        Type[] classes = [.. testClass.Assembly.GetTypes().Where(t => t.BaseType == testClass.BaseType && !t.IsAbstract)
            .OrderBy(static t => t.Name, StringComparer.Ordinal)];
        string[] tests =
        [
            .. testClass.GetMethods()
                .Where(static m => m.GetCustomAttributes().Any(static a => a is FactAttribute))
                .Select(static m => m.Name)
                .Distinct()
                .Order(StringComparer.Ordinal),
        ];
        return (Array.IndexOf(classes, testClass), tests, classes.Length);
    }
}
