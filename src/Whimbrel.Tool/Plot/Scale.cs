namespace Whimbrel.Tool.Plot;

/// <summary>Maps values to positions of an axis, linear or logarithmic, with round marks.</summary>
internal sealed class Scale
{
    private const int FewDecades = 2;
    private const int WantedSteps = 5;

    private readonly bool _isLog;
    private readonly double _low;
    private readonly double _high;
    private readonly double _from;
    private readonly double _to;

    private Scale(bool isLog, double low, double high, double from, double to, IReadOnlyList<double> marks) =>
        (_isLog, _low, _high, _from, _to, Marks) = (isLog, low, high, from, to, marks);

    /// <summary>Values at which the axis has marks.</summary>
    internal IReadOnlyList<double> Marks { get; }

    internal double At(double value)
    {
        double share = _isLog
            ? (Math.Log10(value) - Math.Log10(_low)) / (Math.Log10(_high) - Math.Log10(_low))
            : (value - _low) / (_high - _low);
        return _from + (share * (_to - _from));
    }

    /// <summary>Creates a logarithmic axis for positive values.</summary>
    internal static Scale Log(double least, double most, double from, double to)
    {
        int first = (int)Math.Floor(Math.Log10(least)), last = (int)Math.Ceiling(Math.Log10(most));
        double[] steps = last - first <= FewDecades ? [1, 2, 5] : [1];
        List<double> marks = [];
        for (int decade = first; decade <= last; decade++)
            marks.AddRange(steps.Select(s => s * Math.Pow(10, decade)));
        // The ends are the marks next to the values.
        int low = Math.Max(0, marks.FindLastIndex(m => m <= least)), high = marks.FindIndex(m => m >= most);
        if (high <= low) high = low + 1;
        if (high >= marks.Count) marks.Add(marks[^1] * 10);
        return new Scale(true, marks[low], marks[high], from, to, marks[low..(high + 1)]);
    }

    /// <summary>Creates a linear axis from zero.</summary>
    internal static Scale Linear(double most, double from, double to)
    {
        double step = StepFor(Math.Max(most, double.Epsilon) / WantedSteps);
        int count = Math.Max(1, (int)Math.Ceiling(most / step));
        return new Scale(false, 0, count * step, from, to, [.. Enumerable.Range(0, count + 1).Select(i => i * step)]);
    }

    private static double StepFor(double least)
    {
        double power = Math.Pow(10, Math.Floor(Math.Log10(least)));
        foreach (double step in (double[])[1, 2, 5])
        {
            if (step * power >= least) return step * power;
        }

        return 10 * power;
    }
}
